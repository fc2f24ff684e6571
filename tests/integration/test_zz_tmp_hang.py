import asyncio


async def test_hang(postgres, rabbitmq, own_rabbitmq, own_postgres):
    print("hanging")
    await asyncio.sleep(600)
